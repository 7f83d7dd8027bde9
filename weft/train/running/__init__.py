"""What a trainer does between the first step and the last: loop, steps, records, signals, checkpoints on the way."""
