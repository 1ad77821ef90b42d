"""Run the command line with ``python -m moorage``."""

from moorage.cli.main import main

if __name__ == "__main__":
    main()
