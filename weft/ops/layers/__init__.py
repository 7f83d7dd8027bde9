"""Operations that layers need whole: convolution, pooling, normalisation, attention, recurrence."""
