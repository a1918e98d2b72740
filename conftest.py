"""Which files of the package have examples to run."""

from importlib.util import find_spec

# Kernels need triton, which only machines with a GPU have; they hold no examples.
collect_ignore_glob = [] if find_spec("triton") else ["src/catnf/kernels/*_triton.py"]
if find_spec("sklearn") is None or find_spec("pandas") is None:  # the extra `table`
    collect_ignore_glob.append("src/catnf/tabular/*.py")
if find_spec("fastapi") is None or find_spec("uvicorn") is None:  # the extra `studio`
    collect_ignore_glob += ["src/catnf/studio/app.py", "src/catnf/studio/server.py"]
