"""How a model comes here: from one of its sources into the registry, whole and verified, or not at all.

pull                         one download for all who ask for it, told in frames of progress
fetch                        what it consists of, and the checks that are the same for every source
wheel, file, web, hub        the sources
gathered                     what a source is told, what it tells on its way, and what it hands over
pip, transfer                how bytes get here: by the user's own pip, or over HTTP into a part
partials                     downloads that can go on another time
blocks                       files copied and hashed in threads that stop at once
layout, present              which files make a model, and which of them are here already
"""
