package rewards

// Days, Prizes and Parse expose days, prizes and parse.
var (
	Days   = days
	Prizes = prizes
	Parse  = parse
)

// Owns reports whether a key is of one of two campaigns.
func Owns(attendance, random, key string) bool {
	return campaigns{attendance: attendance, random: random}.owns(key)
}
