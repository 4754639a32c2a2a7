package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func TestSetting(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	for params, want := range map[string]string{"": "off", "&enable_seqscan=on": "on"} {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: url + config.Secret(params), MaxConns: 1}, "test",
			postgres.Indexed())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SHOW enable_seqscan`).Scan(&got))
		require.Equal(t, want, got)
	}
}
