# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion of ksymfs

_ksymfs()
{
	local cur prev words cword split
	_init_completion -s || return

	case $prev in
	--pin-cross)
		COMPREPLY=($(compgen -W "$(sed 's/.*\t//' /proc/filesystems)" -- "$cur"))
		return
		;;
	--pin)
		COMPREPLY=($(compgen -W 'comm: exe: cgroup:' -- "$cur"))
		[[ ${COMPREPLY-} == *: ]] && compopt -o nospace
		return
		;;
	--group)
		COMPREPLY=($(compgen -g -- "$cur"))
		return
		;;
	--from)
		_filedir -d
		return
		;;
	--pidns)
		_pids
		return
		;;
	--retain-time | --retain-bytes | --events-bytes | --pin-max | --pin-time)
		return
		;;
	--capture-at-unload)
		COMPREPLY=($(compgen -W 'on off' -- "$cur"))
		return
		;;
	-o)
		COMPREPLY=($(compgen -W 'uid= gid= umask= nonempty ro' -- "$cur"))
		[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
		return
		;;
	esac
	$split && return

	if [[ $cur == -* ]]; then
		if [[ ${words[1]} == @(attach|detach) ]]; then
			COMPREPLY=($(compgen -W '--from=' -- "$cur"))
		elif [[ ${words[1]} == umount ]]; then
			COMPREPLY=($(compgen -W '-l' -- "$cur"))
		else
			COMPREPLY=($(compgen -W '-f -d -o --retain-time= --retain-bytes=
				--events-bytes= --pin= --pin-max= --pin-time= --pin-cross= --group=
				--pidns= --capture-at-unload= --help --version' -- "$cur"))
		fi
		[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
		return
	fi
	if ((cword == 1)); then
		COMPREPLY=($(compgen -W 'check attach detach umount' -- "$cur"))
		_filedir -d
	elif [[ ${words[1]} == @(attach|detach) && $prev != [0-9]* ]]; then
		_pids
	else
		_filedir -d
	fi
}
complete -F _ksymfs ksymfs
