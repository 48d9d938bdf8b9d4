"""Operations of an adapter beside replies: batches, token counts, files, lists of models, embeddings. None does I/O."""
