"""What models are called, which are here, and whether the engine will take them.  No native code is asked.

names, catalog                      what a model is called, and what stands behind a name that can be pulled
references, licenses, welcome       who may pull what, what has to be accepted first, what is offered to a beginner
registry, stages                    what is here: manifests and files, built out of sight and moved into their place
gguf, support                       is this file whole, and will the engine take it
openvino_ir, safetensors            the same for folders
"""
