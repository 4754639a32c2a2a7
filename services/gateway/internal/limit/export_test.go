package limit

// Keys returns how many keys the process keeps.
func Keys(l *Limiter) int {
	n := 0
	for i := range l.local.shards {
		n += len(l.local.shards[i].tat)
	}
	return n
}
