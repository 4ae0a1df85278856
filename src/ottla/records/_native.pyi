from ottla.records.compiled import Take

take: Take
