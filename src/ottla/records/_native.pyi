from ottla.records.compiled import Put, Take

put: Put
take: Take
