package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
)

func TestVariables(t *testing.T) {
	t.Parallel()
	type common struct {
		Level string `env:"LOG_LEVEL, default=info"`
	}
	type peer struct {
		Addr string        `env:"ADDR"`
		Key  config.Secret `env:"RPC_KEY"`
	}
	type serviceConfig struct {
		common      // not exported, so not filled
		Peer   peer `env:", prefix=TICKET_"`
		Limits struct {
			Rate float64 `env:"LIMIT_RATE, required"`
		}
		Derived string
	}
	require.Equal(t, []string{"TICKET_ADDR", "TICKET_RPC_KEY", "LIMIT_RATE"}, config.Variables[serviceConfig]())
}
