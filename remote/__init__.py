"""What runs on a box. Imports the standard library, torch and safetensors only, and nothing of `helpers`."""
