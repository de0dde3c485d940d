"""Prints where an interpreter and its library lie."""

import os
import sys
import sysconfig

library = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
print(os.path.realpath(sys.executable))
print(*sys.version_info[:2], sep=".")
print(library if os.path.exists(library) and ".so" in library else "")
print(bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
