package event

import (
	"time"
	_ "time/tzdata" // the container image has no time zone database

	"urr.guru/pkg/errs"
)

// DefaultTimeZone is the time zone of events for which operators have set none.
const DefaultTimeZone = "Asia/Seoul"

// timeZone checks that the time zone exists. The request's own rule refuses names that depend on
// the machine, such as "Local".
func (s *Spec) timeZone() []errs.Field {
	if s.TimeZone == nil {
		return nil
	}
	if _, err := time.LoadLocation(*s.TimeZone); err != nil {
		return []errs.Field{{Path: "timeZone", Message: "must be an IANA time zone, such as Asia/Seoul"}}
	}
	return nil
}
