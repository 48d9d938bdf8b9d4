"""Messages of the Agent Communication Protocol."""
