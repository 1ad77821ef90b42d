"""Converts old configurations to v1: all versions since v1alpha1, Policy files, providers, ConfigMaps."""

from moorage.scheduler.config.conversion.convert import Converted, convert_provider, convert_text
from moorage.scheduler.config.conversion.drafts import Effect, Note

__all__ = ["Converted", "Effect", "Note", "convert_provider", "convert_text"]
