"""The `weft` command: `cli.py` is the entry, every other file holds a group of commands or what they share."""
