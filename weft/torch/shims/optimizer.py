"""`torch.optim.optimizer`: the word with which optimisers of others say that a value must be given."""

__all__ = ["required"]


class _Required:
    """Stands for a hyper-parameter that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
