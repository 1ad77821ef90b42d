"""What happens to a pod that was given a node, beside the next attempts: wait on permit, pre-bind, bind, post-bind."""
