import importlib

from models.base_model import BaseModel


def find_model_using_name(model_name):
    modellib = importlib.import_module("models." + model_name + "_model")
    target_model_name = model_name.replace('_', '') + 'model'
    for name, cls in modellib.__dict__.items():
        if name.lower() == target_model_name.lower() and issubclass(cls, BaseModel):
            return cls
    raise NotImplementedError(model_name)


def create_model(opt):
    return find_model_using_name(opt.model)(opt)
