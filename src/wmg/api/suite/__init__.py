"""The suite: tasks of other people, on which WMG stands beside other agents."""
