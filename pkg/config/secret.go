package config

import (
	"encoding/json"
	"log/slog"
)

const redacted = "***"

// Secret is a string that prints as *** in fmt, slog and encoding/json.
type Secret string

func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer; an empty secret prints as an empty string, to distinguish "not
// set" from "set".
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

func (s Secret) GoString() string             { return `config.Secret("` + s.String() + `")` }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.String()) }
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
