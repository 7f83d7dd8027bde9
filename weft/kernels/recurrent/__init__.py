"""Time loops of recurrent layers, forward and backward."""
