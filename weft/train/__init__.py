"""Training: tasks say what is learned, a trainer does the rest; runs leave a folder behind.

>>> from weft.train import Classification, Trainer
>>> Trainer(max_epochs=5).fit(Classification(model, lr=1e-3), train_loader, val_loader)
"""

from ..runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "task": ("Task",),
    "supervised": ("Classification", "Regression", "Supervised"),
    "tbptt": ("CarriedState", "TruncatedBPTT", "run_with_resets"),
    "trainer": ("Trainer",),
    "history": ("History",),
    "locking": ("RunLockedError",),
    "runs": ("RunFolder", "runs_folder"),
    "checkpoint": ("CheckpointError", "CheckpointFileError", "load_checkpoint", "load_weights", "save_checkpoint"),
    "callbacks": (
        *("Callback", "EarlyStopping", "EMA", "GradientFlow", "LearningRateMonitor", "ModelCheckpoint"),
        *("NotFiniteError", "StopOnNaN", "SWA", "Timer", "UpdateRatio"),
    ),
    "precision": ("GradScaler",),
}
_MODULES = ("callbacks", "curves", "events", "logger", "methods", "precision", "progress", "selection", "startup")

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
