REGISTRIES = {}


def setup_registry(kind):
    table = REGISTRIES.setdefault(kind, {})

    def build(name, *args, **kwargs):
        return table[name](*args, **kwargs)

    def register(name):
        def register_cls(cls):
            if name in table:
                raise ValueError('Cannot register duplicate {} ({})'.format(kind, name))
            table[name] = cls
            return cls
        return register_cls
    return build, register


build_criterion, register_criterion = setup_registry('criterion')
build_lr, register_lr = setup_registry('lr_scheduler')
build_model, register_model = setup_registry('model')
