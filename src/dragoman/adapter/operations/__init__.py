"""Operations of an adapter besides replies: batches, token counts, files, lists of models, embeddings. None of them
does I/O."""
