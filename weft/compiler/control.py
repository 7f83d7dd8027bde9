"""Control flow in graphs."""


class Scope: ...
