"""`python -m weft`: the `weft` command, where its script is not at hand."""

from .app.cli import main

if __name__ == "__main__":
    main()
