"""What slides over images: convolutions, Winograd's form of them, pooling, folding, resampling."""
