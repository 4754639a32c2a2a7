package rewards

// Days and Prizes expose days and prizes.
var (
	Days   = days
	Prizes = prizes
)

// Reconcile exposes reconcile.
var Reconcile = reconcile

// Owns reports whether a key is of one of two campaigns.
func Owns(attendance, random, key string) bool {
	return campaigns{attendance: attendance, random: random}.owns(key)
}
