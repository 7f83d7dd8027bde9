"""Matrix products: tilings, tiles, packed panels."""
