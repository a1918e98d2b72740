"""`python -m catnf`: the command line."""

from catnf.cli import main

if __name__ == "__main__":
    main()
