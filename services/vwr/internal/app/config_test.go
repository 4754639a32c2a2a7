package app_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/vwr/internal/app"
	"urr.guru/services/vwr/internal/lobby"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		env  map[string]string
		want string // a part of the error's text; empty if the configuration is valid
	}{
		"least":              {nil, ""},
		"whole":              {map[string]string{"VWR_TOKEN_SECRET": "a:" + key, "QUEUE_ADDR": "q:1", "QUEUE_RPC_KEY": key, "DYNAMODB_PITR": "true"}, ""},
		"no secret":          {map[string]string{"VWR_TOKEN_SECRET": ""}, "VWR_TOKEN_SECRET"},
		"a short secret":     {map[string]string{"VWR_TOKEN_SECRET": "short"}, "32"},
		"no ticket secret":   {map[string]string{"VWR_TICKET_SECRET": ""}, "VWR_TICKET_SECRET"},
		"queue without key":  {map[string]string{"QUEUE_ADDR": "q:1"}, "QUEUE_RPC_KEY"},
		"ingest without key": {map[string]string{"INGEST_ADDR": "i:1"}, "INGEST_RPC_KEY"},
		"reward without key": {map[string]string{"REWARD_ADDR": "r:1"}, "REWARD_RPC_KEY"},
		"the least lead":     {map[string]string{"VWR_LOBBY_LEAD": lobby.MinLead.String()}, ""},
		"too short a lead":   {map[string]string{"VWR_LOBBY_LEAD": (lobby.MinLead - time.Second).String()}, "VWR_LOBBY_LEAD"},
		"a bad switch":       {map[string]string{"DYNAMODB_PITR": "perhaps"}, "DYNAMODB_PITR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"VWR_TOKEN_SECRET": key, "VWR_TICKET_SECRET": key, "RPC_PLAIN": "development"}
			maps.Copy(env, c.env)
			_, err := config.LoadFrom[app.Config](t.Context(), env)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
