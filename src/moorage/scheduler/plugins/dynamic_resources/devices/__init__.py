"""Devices of the cluster: slices, pools, the devices that each node reaches, and the devices in use."""
