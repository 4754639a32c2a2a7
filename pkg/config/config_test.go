package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
)

type peer struct {
	Addr string        `env:"ADDR"`
	Key  config.Secret `env:"KEY"`
}

type Base struct {
	Level string `env:"LEVEL, default=info" oneof:"debug info"`
}

// Validate is called for every struct inside a configuration.
func (b *Base) Validate() error {
	if b.Level == "info" {
		return nil
	}
	return config.Invalid("LEVEL", b.Level, "must be info in this test")
}

type sample struct {
	Base

	Threshold int                      `env:"THRESHOLD, default=1000" min:"1" max:"5000"`
	Hold      time.Duration            `env:"HOLD, default=5m" min:"1s"`
	Rate      float64                  `env:"RATE, default=0.5" min:"0" max:"1"`
	Size      uint32                   `env:"SIZE, default=1" max:"10"`
	On        bool                     `env:"ON"`
	Brokers   []string                 `env:"BROKERS"`
	Colours   []string                 `env:"COLOURS" oneof:"red blue"`
	Accept    map[string]config.Secret `env:"ACCEPT"`
	Secret    config.Secret            `env:"SECRET, required"`
	Ticket    peer                     `env:", prefix=TICKET_"`
}

func (s *sample) Validate() error {
	if s.On && s.Ticket.Addr == "" {
		return config.Invalid("TICKET_ADDR", s.Ticket.Addr, "must be a host:port when ON is true")
	}
	return nil
}

func TestLoad(t *testing.T) {
	t.Parallel()
	got, err := config.LoadFrom[sample](t.Context(), map[string]string{
		"THRESHOLD": "7", "HOLD": "90s", "ON": "true", "BROKERS": "a:1,b:2", "ACCEPT": "gateway:abc,vwr:def",
		"SECRET": "s3cret", "TICKET_ADDR": "dns:///ticket:8086", "TICKET_KEY": "k",
	})
	require.NoError(t, err)
	want := &sample{
		Base: Base{Level: "info"}, Threshold: 7, Hold: 90 * time.Second, Rate: 0.5, Size: 1, On: true, Brokers: []string{"a:1", "b:2"},
		Accept: map[string]config.Secret{"gateway": "abc", "vwr": "def"}, Secret: "s3cret",
		Ticket: peer{Addr: "dns:///ticket:8086", Key: "k"},
	}
	require.Empty(t, cmp.Diff(want, got))
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"not a number":    {map[string]string{"THRESHOLD": "abc"}, `THRESHOLD="abc": must be a whole number ≥ 1 and ≤ 5000`},
		"below":           {map[string]string{"THRESHOLD": "0"}, `THRESHOLD="0": must be a whole number ≥ 1 and ≤ 5000`},
		"above":           {map[string]string{"SIZE": "11"}, `SIZE="11": must be a whole number ≤ 10`},
		"negative uint":   {map[string]string{"SIZE": "-1"}, `SIZE="-1": must be a whole number ≤ 10`},
		"bad duration":    {map[string]string{"HOLD": "5 min"}, `HOLD="5 min": must be a duration (as 30s or 5m) ≥ 1s`},
		"short duration":  {map[string]string{"HOLD": "10ms"}, `HOLD="10ms": must be a duration (as 30s or 5m) ≥ 1s`},
		"float":           {map[string]string{"RATE": "1.5"}, `RATE="1.5": must be a number ≥ 0 and ≤ 1`},
		"bool":            {map[string]string{"ON": "yes"}, `ON="yes": must be true or false`},
		"nested struct":   {map[string]string{"LEVEL": "debug"}, `LEVEL="debug": must be info in this test`},
		"oneof":           {map[string]string{"LEVEL": "loud"}, `LEVEL="loud": must be one of debug, info`},
		"oneof in a list": {map[string]string{"COLOURS": "red,green"}, `COLOURS="red,green": must be a list of red, blue`},
		"map of secrets":  {map[string]string{"ACCEPT": "topsecret"}, `ACCEPT="***": must be key:value[,key:value…]`},
		"empty":           {map[string]string{"SECRET": ""}, `SECRET is not set: it is required`},
		"empty item":      {map[string]string{"BROKERS": "a:1,,b:2"}, `BROKERS="a:1,,b:2": must be a list separated by commas`},
		"missing":         {map[string]string{"SECRET": "-"}, `SECRET is not set: it is required`},
		"validate":        {map[string]string{"ON": "true"}, `TICKET_ADDR="": must be a host:port when ON is true`},
		"several at once": {map[string]string{"ON": "x", "SIZE": "y"}, "SIZE=\"y\": must be a whole number ≤ 10\nON=\"x\": must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"SECRET": "s"}
			for k, v := range tc.env {
				env[k] = v
				if v == "-" {
					delete(env, k)
				}
			}
			_, err := config.LoadFrom[sample](t.Context(), env)
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestEmptyVariableIsNotSet(t *testing.T) {
	t.Parallel()
	got, err := config.LoadFrom[sample](t.Context(), map[string]string{
		"SECRET": "s", "THRESHOLD": "", "HOLD": "", "LEVEL": "", "ON": "", "BROKERS": "", "ACCEPT": "", "TICKET_ADDR": "",
	})
	require.NoError(t, err)
	require.Equal(t, 1000, got.Threshold)
	require.Equal(t, 5*time.Minute, got.Hold)
	require.Equal(t, "info", got.Level)
	require.Empty(t, got.Brokers)
}

func TestLoadReadsTheEnvironment(t *testing.T) {
	t.Setenv("SECRET", "from the environment")
	got, err := config.Load[sample](context.Background())
	require.NoError(t, err)
	require.Equal(t, "from the environment", got.Secret.Reveal())
}

func TestLoadRefusesNonStructs(t *testing.T) {
	t.Parallel()
	_, err := config.LoadFrom[int](t.Context(), map[string]string{})
	require.ErrorContains(t, err, "not a struct")
}

func TestBoundsOnTextPanic(t *testing.T) {
	t.Parallel()
	type wrong struct {
		Name string `env:"NAME, default=x" min:"1"`
	}
	require.Panics(t, func() { _, _ = config.LoadFrom[wrong](t.Context(), map[string]string{}) })
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	const s = config.Secret("hunter2hunter2")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "nested", map[string]any{"s": s})
	js, err := json.Marshal(map[string]any{"a": s, "b": []config.Secret{s}})
	require.NoError(t, err)
	for _, out := range []string{
		fmt.Sprint(s), fmt.Sprintf("%s %v %+v %#v %q", s, s, s, s, s), fmt.Sprintf("%+v", struct{ S config.Secret }{s}),
		log.String(), string(js), config.Invalid("X", s, "must be longer").Error(), errors.New(s.String()).Error(),
	} {
		require.NotContains(t, out, "hunter2")
	}
	require.Equal(t, "hunter2hunter2", s.Reveal())
	require.Empty(t, config.Secret("").String())
}
