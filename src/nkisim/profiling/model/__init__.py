"""The model of device time: costs of instructions, dependencies, shared resources, schedule."""
