package processtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.WithLeakCheck(m), func() int {
		if len(os.Args) > 1 {
			fmt.Println(os.Getenv("GREETING"), os.Args[1])
			return 3
		}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("serving")
		<-stop
		return 0
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	out, err := processtest.Run(t, map[string]string{"GREETING": "hello"}, "world")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Equal(t, "hello world\n", out)
}

func TestStartAndEnd(t *testing.T) {
	t.Parallel()
	serving := func() *processtest.Process {
		p := processtest.Start(t, nil)
		testkit.Until(t, func() bool { return strings.Contains(p.Output(), "serving") })
		return p
	}
	p := serving()
	p.Stop()
	require.NoError(t, p.Wait())
	p = serving()
	p.Kill()
	require.ErrorContains(t, p.Wait(), "killed")
}
