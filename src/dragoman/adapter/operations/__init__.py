"""Operations of an adapter beside replies: batches, token counts, files, lists of models. None of them does I/O."""
