"""Views, joins and pieces: the same elements in another arrangement."""
