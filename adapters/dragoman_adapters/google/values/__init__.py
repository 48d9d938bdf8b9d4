"""How Google writes values: base64, argument paths and field names."""
