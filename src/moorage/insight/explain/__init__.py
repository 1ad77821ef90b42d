"""Reasons why a pod is pending or on its node, and the smallest changes that make it fit."""
