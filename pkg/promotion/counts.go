package promotion

// Counts says how many requests to a promotion were accepted, and how they ended.
type Counts struct {
	Accepted int64
	// Entered are the entries of a lottery that have no result yet.
	Entered int64
	Results map[ResultCode]int64
}

func (c Counts) Unsettled() int64 {
	n := c.Accepted
	for _, ended := range c.Results {
		n -= ended
	}
	return n
}

// Waiting returns how many requests can be processed now. Entries must wait for the draw.
func (c Counts) Waiting() int64 { return c.Unsettled() - c.Entered }

func (c *Counts) Add(code ResultCode, n int64) {
	if c.Results == nil {
		c.Results = map[ResultCode]int64{}
	}
	c.Results[code] += n
}
