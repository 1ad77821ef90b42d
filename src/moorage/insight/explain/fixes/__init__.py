"""Fixes, one module per kind of obstacle: functions that propose changes of a subject (see ``subject.fix``)."""
