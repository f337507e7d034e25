"""The coding agents that people use, driven through a real server to scripted upstreams: `make agents`."""
