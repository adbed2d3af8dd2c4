// The control plane of a Kubernetes cluster in one program: etcd, the API server and the controllers.
//
// Usage: control-plane etcd|kube-apiserver|kube-controller-manager ARGUMENTS... The arguments are those of the program of
// that name. Each ends with its parent, whose end closes the standard input.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: control-plane etcd|kube-apiserver|kube-controller-manager ARGUMENTS...")
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	name, arguments := os.Args[1], os.Args[2:]
	switch name {
	case "etcd":
		os.Args = os.Args[1:]
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(run(apiserver.NewAPIServerCommand(), arguments))
	case "kube-controller-manager":
		os.Exit(run(controllers.NewControllerManagerCommand(), arguments))
	default:
		fmt.Fprintf(os.Stderr, "control-plane: %q is not etcd, kube-apiserver or kube-controller-manager\n", name)
		os.Exit(2)
	}
}

func run(command *cobra.Command, arguments []string) int {
	command.SetArgs(arguments)
	return cli.Run(command)
}
