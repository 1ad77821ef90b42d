"""The binding cycle of a pod, concurrent with later attempts: wait on permit, pre-bind, bind, post-bind."""
