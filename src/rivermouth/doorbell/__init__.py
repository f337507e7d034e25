"""The doorbell: somebody has written something; look.  It carries no data, and a ring may be lost."""
