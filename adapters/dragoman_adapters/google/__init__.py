"""Google's generateContent, as the Gemini API and Vertex AI serve it."""
