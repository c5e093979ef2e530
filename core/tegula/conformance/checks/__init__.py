"""Tests that are no cases: about the plugin, the compiler, the device, and about stress."""
