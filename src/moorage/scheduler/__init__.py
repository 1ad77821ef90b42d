"""The scheduler: configuration, framework, in-tree plugins, state, queue, engine, wiring and daemon."""
