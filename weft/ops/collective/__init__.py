"""Operations that several processes do together: sums, copies and exchanges of tensors over all ranks of a group."""
