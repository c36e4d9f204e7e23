"""The settings of WMG."""
